"""The paper's studies and settings: part of the source checkout, not of the wheel."""
