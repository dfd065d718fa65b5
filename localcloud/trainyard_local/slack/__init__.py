"""A workspace of Slack on loopback: its Web API, and requests as Slack signs them."""
