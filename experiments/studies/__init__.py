"""The paper's studies, one file each; `unstale experiment NAME` runs them."""
