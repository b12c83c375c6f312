"""Files and frames into tables: CSV and its dialects, parquet, .ts, plain arrays."""
