"""Trainers that resume exactly"""
