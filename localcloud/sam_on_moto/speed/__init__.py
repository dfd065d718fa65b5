"""Patches that only make moto faster; the cloud is as true without them."""
