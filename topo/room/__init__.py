"""The machine room: racks, positions, cables and their lengths."""
