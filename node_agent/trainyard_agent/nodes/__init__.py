"""Which nodes there are and which of them live: the links, and the judgement of a silence."""
