"""Translation from one language to another, learned from parallel text: the trainer, its model, and
the program that translates.
"""
