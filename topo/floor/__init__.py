"""The floor: racks and positions of devices, cables and their lengths, trays."""
