"""What `import fenchel` offers: scikit-learn estimators over a federation on this machine, and real federations."""
