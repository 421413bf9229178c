"""Models in the forms of other programs: a scikit-learn pipeline, ONNX, and a card for people."""
