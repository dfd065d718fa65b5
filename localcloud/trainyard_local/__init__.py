"""The embedded local cloud"""
