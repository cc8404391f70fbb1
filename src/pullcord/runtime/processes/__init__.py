"""Work outside the event loop: processes, threads, and the work that they start."""
