"""Models of tables, trained here: tabular.py FOLDER. Seeds are fixed; the versions are those of tabular.txt.

Each is exported as people export it, by skl2onnx or onnxmltools; what takes rows of 20 numbers is named X.
"""

import pathlib
import sys
import warnings

import lightgbm
import numpy as np
import onnx
import onnxmltools
import xgboost
from onnxmltools.convert.common.data_types import FloatTensorType
from skl2onnx import to_onnx
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_classification, make_regression
from sklearn.ensemble import (
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC

FEATURES = 20
ROWS = 4000


def labelled(classes):
    rows, labels = make_classification(ROWS, FEATURES, n_informative=12, n_classes=classes, random_state=classes)
    return rows.astype(np.float32), labels


def with_holes(rows):
    rows = rows.copy()
    rows[np.random.default_rng(0).random(rows.shape) < 0.1] = np.nan
    return rows


def numbered(model, names):
    """The model with its labels as numbers again: the texts come out of one op and go into the next."""
    label = model.graph.output[0]
    model.graph.node.append(
        onnx.helper.make_node(
            "LabelEncoder",
            [label.name],
            ["number"],
            domain="ai.onnx.ml",
            keys_strings=names,
            values_int64s=list(range(len(names))),
        )
    )
    label.CopyFrom(onnx.helper.make_tensor_value_info("number", onnx.TensorProto.INT64, [None]))
    return model


def exported(model, rows, zipmap=False):
    options = {"zipmap": zipmap} if hasattr(model, "predict_proba") else None
    return to_onnx(model, rows[:1], options=options, target_opset={"": 18, "ai.onnx.ml": 3})


def boosted(convert, model, **options):
    shape = [("X", FloatTensorType([None, FEATURES]))]
    return convert(model, initial_types=shape, target_opset=15, **options)


def main():
    warnings.filterwarnings("ignore")
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    two, of_two = labelled(2)
    four, of_four = labelled(4)
    names = ["ash", "birch", "cedar", "elm"]
    numbers, wanted = make_regression(ROWS, FEATURES, noise=1, random_state=2)
    numbers, wanted = numbers.astype(np.float32), (wanted / 100).astype(np.float32)
    mixed = four.copy()
    mixed[:, :3] = np.random.default_rng(3).integers(0, 5, (ROWS, 3))
    seed = {"random_state": 0}
    forest = {"n_estimators": 100, "max_depth": 12, **seed}
    few = slice(0, 1000)
    columns = ColumnTransformer(
        [
            ("kinds", OneHotEncoder(handle_unknown="ignore"), [0, 1, 2]),
            ("rest", make_pipeline(SimpleImputer(), StandardScaler()), list(range(3, FEATURES))),
        ]
    )
    made = {
        "forest_2": lambda: exported(RandomForestClassifier(**forest).fit(two, of_two), two),
        "forest_4": lambda: exported(RandomForestClassifier(**forest).fit(four, of_four), four),
        "forest_texts": lambda: numbered(
            exported(RandomForestClassifier(**forest).fit(four, np.array(names)[of_four]), four), names
        ),
        "forest_numbers": lambda: exported(RandomForestRegressor(**forest).fit(numbers, wanted), numbers),
        "extra_trees": lambda: exported(ExtraTreesClassifier(50, **seed).fit(two, of_two), two),
        "boosting_4": lambda: exported(GradientBoostingClassifier(n_estimators=50, **seed).fit(four, of_four), four),
        "boosting_numbers": lambda: exported(GradientBoostingRegressor(**seed).fit(numbers, wanted), numbers),
        "lightgbm_2": lambda: boosted(
            onnxmltools.convert_lightgbm,
            lightgbm.LGBMClassifier(verbose=-1).fit(with_holes(two), of_two),
            zipmap=False,
        ),
        "lightgbm_4": lambda: boosted(
            onnxmltools.convert_lightgbm, lightgbm.LGBMClassifier(verbose=-1).fit(four, of_four), zipmap=False
        ),
        "xgboost_2": lambda: boosted(onnxmltools.convert_xgboost, xgboost.XGBClassifier().fit(with_holes(two), of_two)),
        "xgboost_numbers": lambda: boosted(onnxmltools.convert_xgboost, xgboost.XGBRegressor().fit(numbers, wanted)),
        "linear": lambda: exported(LinearRegression().fit(numbers, wanted), numbers),
        "logistic_4": lambda: exported(LogisticRegression().fit(four, of_four), four),
        "svc_2": lambda: exported(LinearSVC(**seed).fit(two, of_two), two),
        "svc_radial": lambda: exported(SVC().fit(four[few], of_four[few]), four, zipmap=False),
        "svr": lambda: exported(SVR().fit(numbers[few], wanted[few]), numbers),
        "perceptron": lambda: exported(MLPClassifier(max_iter=30, **seed).fit(four, of_four), four),
        "filled_scaled": lambda: exported(
            make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression()).fit(with_holes(two), of_two), two
        ),
        "unit_rows": lambda: exported(
            make_pipeline(Normalizer(), RandomForestClassifier(10, max_depth=5, **seed)).fit(two, of_two), two
        ),
        "columns": lambda: exported(make_pipeline(columns, LogisticRegression()).fit(mixed, of_four), mixed),
    }
    for name, make in made.items():
        try:
            onnx.save(make(), folder / f"{name}.onnx")
        except Exception as error:  # an exporter's refusal is a row that is missing, not the end
            print(f"tabular: {name} is not exported: {str(error)[:200]}", file=sys.stderr)


main()
