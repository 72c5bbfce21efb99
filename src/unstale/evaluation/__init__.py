"""Recall, nDCG and MRR of an encoder on a dataset."""
