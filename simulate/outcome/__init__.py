"""What playing flows gives: times, link loads, critical paths."""
