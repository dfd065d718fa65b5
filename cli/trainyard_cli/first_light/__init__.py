"""`trainyard first-light`: the smallest real run, guided, which tests our assumptions about AWS."""
