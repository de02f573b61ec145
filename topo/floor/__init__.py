"""The machine room: racks and positions, cables and their lengths, trays."""
