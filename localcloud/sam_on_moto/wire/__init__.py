"""HTTP as bytes: requests are read, answers are written."""
