"""Rows of a JSON table as a pandas DataFrame if pandas is installed, otherwise as a list of dicts."""


def flat(row, prefix=""):
    """{"a": {"b": 1}} -> {"a.b": 1}. Lists stay as they are."""
    cells = {}
    for key, value in row.items():
        if isinstance(value, dict):
            cells.update(flat(value, f"{prefix}{key}."))
        else:
            cells[prefix + key] = value
    return cells


def table(rows):
    rows = [flat(row) for row in rows]
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)
