"""Facts that servegate did not measure: data files, each naming its source in its first lines."""
