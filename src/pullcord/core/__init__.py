"""The pure middle: values in, values out. No asyncio, no clock, no I/O, no randomness."""
