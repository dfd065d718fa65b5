"""Spreads a model over ranks behind one protocol, so that models and training steps are written
once.
"""
