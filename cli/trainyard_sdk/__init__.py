"""The Python SDK of Trainyard: `Trainyard().submit(spec).wait()`, and the client below it."""
