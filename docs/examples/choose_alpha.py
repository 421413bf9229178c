"""scikit-learn's search over a federation of real processes, which stays between the trainings."""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV

from fenchel import FederatedClassifier, close_all

X, y = load_breast_cancer(return_X_y=True)
search = GridSearchCV(
    FederatedClassifier(grid=(2, 2), cipher="masks"), {"alpha": [0.1, 0.001]}, cv=2, scoring="roc_auc"
).fit(X, y)

for alpha, score in zip(search.cv_results_["param_alpha"], search.cv_results_["mean_test_score"], strict=True):
    print(f"alpha {alpha}: area under the curve {score:.4f}")
print(f"chosen: {search.best_params_['alpha']}")
close_all()
