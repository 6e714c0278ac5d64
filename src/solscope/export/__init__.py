"""An attributed profile as a file for other programs: Perfetto, Parquet, CSV."""
