"""Files in: CSV, parquet and .ts into tables of columns."""
