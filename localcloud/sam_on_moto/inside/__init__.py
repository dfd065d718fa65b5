"""What the cloud's own parts do at moto's backends: no request, no keys, no judgement."""
