"""What programs that speak the Model Context Protocol may ask of Trainyard, on stdin and stdout."""
