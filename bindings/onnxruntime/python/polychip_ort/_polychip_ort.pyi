__version__: str

def reports() -> list[str]:
    """What became of each session that is open, as JSON each."""
