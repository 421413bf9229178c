"""A model as an ONNX graph, with one input for each column of a table.

Inputs of numbers are (rows, 1), NaN where a cell is missing; those of categories are (rows, 1) texts, written as
Fenchel compares them, empty where a cell is missing. The outputs are `score` (rows, 1) or (rows, classes),
`probability` where the scores are log-odds, and `label` (rows,), or `prediction` (rows, 1) in regression.
"""

from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fenchel_common.model.joining import lacking
from fenchel_common.model.record import Array, Feature, ModelRecord
from fenchel_common.model.scoring import LOG_ODDS, NO_NAMES
from fenchel_deploy.export.columns import MISSING, CategoryTable, ColumnModel, figures

OPSETS: Final = (("", 18), ("ai.onnx.ml", 3))
IR_VERSION: Final = 9


def onnx_bytes(by_columns: ColumnModel, *, single: bool) -> bytes:
    """The model as a file; numbers are of 32 bits if `single`, else of 64."""
    graph = _Graph(np.float32 if single else np.float64)
    scores = graph.scores(by_columns)
    record = by_columns.model.record
    if lacking(by_columns.model):
        graph.output("score", scores, (None, by_columns.weights.shape[1]))
    elif record.task == "regression":
        graph.output("prediction", scores, (None, 1))
    else:
        graph.classified(record, scores)
    made = helper.make_model(
        helper.make_graph(graph.nodes, "fenchel", graph.inputs, graph.outputs, graph.constants),
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in OPSETS],
        ir_version=IR_VERSION,
        producer_name="fenchel",
        producer_version=record.provenance.software,
        doc_string=f"run {record.run} ({record.name})",
    )
    onnx.checker.check_model(made, full_check=True)
    return bytes(made.SerializeToString())


class _Graph:
    """Nodes in the making; every method returns the name of a tensor."""

    def __init__(self, kind: type[np.float32] | type[np.float64]) -> None:
        self._kind = kind
        self._number = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []

    def scores(self, by_columns: ColumnModel) -> str:
        record = by_columns.model.record
        columns = {name: self._input(name, self._number) for name in by_columns.number_columns}
        parts = []
        if by_columns.numbers:
            parts.append(self._numbers(by_columns.numbers, columns))
        if by_columns.gaps:
            together = self._node("Concat", [columns[one.column] for one in by_columns.gaps], axis=1)
            flags = self._node("Cast", [self._node("IsNaN", [together])], to=self._number)
            parts.append(self._scaled(flags, by_columns.gaps))
        parts += [self._category(table) for table in by_columns.categories]
        prepared = self._node("Concat", parts, axis=1) if len(parts) > 1 else parts[0]
        if record.unit_rows:
            prepared = self._unit(prepared)
        weights, intercept = by_columns.predicted_numbers(partial=bool(lacking(by_columns.model)))
        product = self._node("MatMul", [prepared, self._constant(weights)])
        return self._node("Add", [product, self._constant(intercept[np.newaxis])])

    def classified(self, record: ModelRecord, scores: str) -> None:
        """Adds the outputs of a classifier."""
        classes = record.classes or NO_NAMES
        self.output("score", scores, (None, 1 if record.task == "binary" else len(classes)))
        if record.task == "binary":
            positive = self._node("GreaterOrEqual", [scores, self._constant(np.zeros((1, 1)))])
            flat = self._node("Reshape", [positive, self._constant(np.array([-1]), TensorProto.INT64)])
            position = self._node("Cast", [flat], to=TensorProto.INT64)
        else:
            position = self._node("ArgMax", [scores], axis=1, keepdims=0)
        if record.loss in LOG_ODDS:
            self.output("probability", self._probability(record, scores), (None, None))
        names = numpy_helper.from_array(np.array(classes, dtype=object), self._name())
        self.constants.append(names)
        label = self._node("Gather", [names.name, position], axis=0)
        self.output("label", label, (None,), TensorProto.STRING)

    def output(self, name: str, tensor: str, shape: tuple[int | None, ...], kind: int | None = None) -> None:
        while any(name == one.name for one in self.inputs):  # A column may have this name.
            name += "_"
        self.nodes.append(helper.make_node("Identity", [tensor], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind or self._number, shape))

    def _numbers(self, features: tuple[Feature, ...], columns: dict[str, str]) -> str:
        together = self._node("Concat", [columns[one.column] for one in features], axis=1)
        missing = self._constant(figures(features, "missing")[np.newaxis])
        return self._scaled(self._node("Where", [self._node("IsNaN", [together]), missing, together]), features)

    def _scaled(self, values: str, features: tuple[Feature, ...]) -> str:
        shift, scale = (self._constant(figures(features, name)[np.newaxis]) for name in ("shift", "scale"))
        return self._node("Div", [self._node("Sub", [values, shift]), scale])

    def _category(self, table: CategoryTable) -> str:
        cells = self._input(table.column, TensorProto.STRING)
        flat = self._node("Reshape", [cells, self._constant(np.array([-1]), TensorProto.INT64)])
        texts = [*table.values, MISSING]
        rows = self._name()
        self.nodes.append(
            helper.make_node(
                "LabelEncoder",
                [flat],
                [rows],
                domain="ai.onnx.ml",
                keys_strings=texts,
                values_int64s=list(range(len(texts))),
                default_int64=len(texts),
            )
        )
        return self._node("Gather", [self._constant(table.table), rows], axis=0)

    def _unit(self, prepared: str) -> str:
        axes = self._constant(np.array([1]), TensorProto.INT64)
        length = self._node("ReduceL2", [prepared, axes], keepdims=1)
        one, zero = (self._constant(np.full((1, 1), value)) for value in (1.0, 0.0))
        divisor = self._node("Where", [self._node("Greater", [length, zero]), length, one])
        return self._node("Div", [prepared, divisor])

    def _probability(self, record: ModelRecord, scores: str) -> str:
        if record.loss == "multinomial":
            return self._node("Softmax", [scores], axis=1)
        single = self._node("Sigmoid", [scores])
        if record.task == "binary":
            return single
        axes = self._constant(np.array([1]), TensorProto.INT64)
        return self._node("Div", [single, self._node("ReduceSum", [single, axes], keepdims=1)])

    def _input(self, column: str, kind: int) -> str:
        self.inputs.append(helper.make_tensor_value_info(column, kind, (None, 1)))
        return column

    def _constant(self, values: Array | np.ndarray[Any, Any], kind: int | None = None) -> str:
        numpy_kind = self._kind if kind is None else np.int64
        tensor = numpy_helper.from_array(np.asarray(values, dtype=numpy_kind), self._name())
        self.constants.append(tensor)
        return str(tensor.name)

    def _node(self, operator: str, inputs: list[str], **attributes: Any) -> str:
        name = self._name()
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def _name(self) -> str:
        return f"fenchel {len(self.nodes) + len(self.constants)}"
