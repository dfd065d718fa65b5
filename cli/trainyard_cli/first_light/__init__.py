"""`trainyard first-light`: the smallest real run, guided, which writes down what of our assumptions about AWS held."""
