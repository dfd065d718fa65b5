"""The web console: a proxy on loopback that signs what the page asks for, and the page's files."""
