"""Files of traffic, read and written: GOAL schedules, Chakra traces, flows as CSV and Parquet."""
