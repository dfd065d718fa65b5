"""`trainyard init`: a first spec for a program that is there already."""
