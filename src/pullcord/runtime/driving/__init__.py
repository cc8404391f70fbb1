"""One claimed run, from its claim until it rests or its owner lets it go."""
