"""Where nodes come from: the user's module and line, the exported nodes, or the pass that made them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge
from torch import nn

from qnndbg.capture.provenance import QUANTISER, Lineage
from qnndbg.model.graph import Origin

Program = torch.export.ExportedProgram
X = torch.ones(2, 4)
TORCH = Path(torch.__file__).parent
RELU = torch.ops.aten.relu.default


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.acts = nn.ModuleList([nn.ReLU(), nn.Sequential(nn.GELU())])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.fc(x)  # the line of the linear
        for act in self.acts:
            x = act(x)
        return x * x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(Block(), Block())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.flatten(self.layers(x))


def exported(*, strict: bool = True) -> Program:
    return torch.export.export(Net().eval(), (X,), strict=strict)


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.strip().startswith(text))


def origins(lineage: Lineage, graph: torch.fx.Graph) -> dict[str, Origin]:
    return {node.name: lineage.origin(node) for node in graph.nodes}


def begun(graph: torch.fx.Graph) -> Lineage:
    lineage = Lineage()
    lineage.begin(graph)
    return lineage


def find(graph: torch.fx.Graph, name: str) -> torch.fx.Node:
    nodes: list[torch.fx.Node] = list(graph.nodes)
    return next(node for node in nodes if node.name == name)


def insert_relu(graph: torch.fx.Graph, after: str, name: str) -> torch.fx.Node:
    """A node that no other node accounts for, as a pass makes one."""
    anchor = find(graph, after)
    with graph.inserting_after(anchor):
        made = graph.create_node("call_function", RELU, (anchor,), name=name)
    anchor.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)
    return made


@pytest.mark.parametrize("strict", [True, False])
def test_nodes_of_the_export_know_module_class_and_line(strict: bool) -> None:
    graph = exported(strict=strict).graph
    found = origins(begun(graph), graph)
    where = {name: (origin.module_path, origin.module_class) for name, origin in found.items()}
    assert where["linear"] == ("layers.0.fc", "Linear")
    assert where["relu_1"] == ("layers.1.acts.0", "ReLU")
    assert where["gelu"] == ("layers.0.acts.1.0", "GELU")
    assert where["mul_1"] == ("layers.1", "Block")
    assert where["flatten"] == ("", "Net")
    file, line = found["linear_1"].source.rsplit(":")
    assert (Path(file).name, int(line)) == (Path(__file__).name, line_of("x = self.fc(x)"))
    assert not Path(file).is_absolute()
    assert {origin.created_by for origin in found.values()} == {""}


def test_placeholders_and_output_have_no_origin() -> None:
    graph = exported().graph
    found = origins(begun(graph), graph)
    assert {found[n.name] for n in graph.nodes if n.op in {"placeholder", "output"}} == {Origin()}


def test_exported_nodes_are_their_own_ancestors() -> None:
    graph = exported().graph
    found = origins(begun(graph), graph)
    for node in graph.nodes:
        if node.op == "call_function":
            assert found[node.name].ancestors == (node.name,)


def edge_origins(program: Program) -> dict[str, Origin]:
    lineage = begun(program.graph)
    edge = to_edge(program).exported_program()
    lineage.update(edge.graph, "")  # no pass: a decomposition
    return origins(lineage, edge.graph)


def test_ancestors_are_nodes_of_the_export_through_all_that_follows() -> None:
    found = edge_origins(exported())
    ancestors = {name: origin.ancestors for name, origin in found.items()}
    assert ancestors["aten_relu_default_1"] == ("relu_1",)
    assert ancestors["aten_addmm_default"] == ancestors["aten_permute_copy_default"] == ("linear",)
    assert found["aten_addmm_default_1"].module_path == "layers.1.fc"
    assert {origin.created_by for origin in found.values()} == {""}


def test_ancestors_are_known_without_strict_tracing_too() -> None:
    found = edge_origins(exported(strict=False))
    assert found["aten_relu_default_1"].ancestors == ("relu_1",)


def test_node_that_nothing_accounts_for_was_made_by_the_pass() -> None:
    graph = exported().graph
    lineage = begun(graph)
    insert_relu(graph, "gelu", "invented")
    lineage.update(graph, "Inventor")
    insert_relu(graph, "gelu_1", "later")
    lineage.update(graph, "Other")
    found = origins(lineage, graph)
    assert (found["invented"].created_by, found["later"].created_by) == ("Inventor", "Other")
    assert found["invented"].ancestors == ()
    assert {o.created_by for name, o in found.items() if name not in {"invented", "later"}} == {""}


def test_node_that_was_renamed_or_changed_in_place_keeps_its_origin() -> None:
    graph = exported().graph
    lineage = begun(graph)
    before = lineage.origin(find(graph, "relu"))
    node = find(graph, "relu")
    node.name, node.target = "other", torch.ops.aten.gelu.default
    lineage.update(graph, "Renamer")
    assert lineage.origin(node) == before
    assert before.created_by == ""


def test_graph_that_a_pass_traced_anew_keeps_its_origins() -> None:
    graph = exported().graph
    lineage = begun(graph)
    insert_relu(graph, "gelu", "invented")
    lineage.update(graph, "Inventor")
    before = origins(lineage, graph)
    copy = torch.fx.Graph()
    copy.graph_copy(graph, {})
    lineage.update(copy, "Retracer")
    after = origins(lineage, copy)
    assert after == {name: before[name] for name in after}
    assert after["invented"].created_by == "Inventor"


def traced(program: Program) -> torch.fx.Graph:
    """The graph behind torch.export's own decompositions, which leaves chains to its ancestors."""
    graph: torch.fx.Graph = program.run_decompositions({}).graph
    return graph


def test_nodes_that_change_names_as_they_are_traced_anew_keep_their_origins() -> None:
    program = exported()
    lineage = begun(program.graph)
    graph = traced(program)
    lineage.update(graph, "")
    before = origins(lineage, graph)
    copy = torch.fx.Graph()
    copy.graph_copy(graph, {})
    names = {"relu": "relu_1", "relu_1": "relu"}  # as a pass leaves them that counts anew
    one, other = find(copy, "relu"), find(copy, "relu_1")
    one.name, other.name = other.name, one.name
    lineage.update(copy, "Retracer")
    after = origins(lineage, copy)
    assert before["relu"].ancestors == ("relu",)
    assert after == {name: before[names.get(name, name)] for name in after}


@pytest.mark.parametrize("number", [1, 2])
def test_nodes_that_a_pass_puts_in_place_of_one_descend_from_it(number: int) -> None:
    program = exported()
    lineage = begun(program.graph)
    graph = traced(program)
    lineage.update(graph, "")
    before = lineage.origin(find(graph, "gelu"))
    gelu = last = find(graph, "gelu")
    for i in range(number):
        with graph.inserting_after(last):
            last = graph.create_node("call_function", RELU, (last,), name=f"part_{i}")
        last.meta = dict(gelu.meta)
    gelu.replace_all_uses_with(last, delete_user_cb=lambda user: not user.name.startswith("part"))
    find(graph, "part_0").args = gelu.args
    graph.erase_node(gelu)
    lineage.update(graph, "Replacer")
    assert [lineage.origin(find(graph, f"part_{i}")) for i in range(number)] == [before] * number
    assert (before.ancestors, before.created_by) == (("gelu",), "")


def test_node_that_a_pass_puts_beside_one_is_invented_though_it_looks_like_it() -> None:
    program = exported()
    lineage = begun(program.graph)
    graph = traced(program)
    lineage.update(graph, "")
    made = insert_relu(graph, "gelu", "invented")
    made.meta = dict(find(graph, "gelu").meta)
    lineage.update(graph, "Inventor")
    assert lineage.origin(made).created_by == "Inventor"
    assert lineage.origin(find(graph, "gelu")).created_by == ""


def test_partition_goes_its_own_way() -> None:
    graph = exported().graph
    whole = begun(graph)
    part = whole.fork()
    copy = torch.fx.Graph()
    copy.graph_copy(graph, {})
    insert_relu(copy, "gelu", "layout")
    part.update(copy, "LayoutTransform")
    assert part.origin(find(copy, "layout")).created_by == "LayoutTransform"
    assert part.origin(find(copy, "relu")) == whole.origin(find(graph, "relu"))
    whole.update(graph, "Nothing")
    assert set(origins(whole, graph)) == {node.name for node in graph.nodes}


def test_quantise_operators_are_the_quantisers() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    grid = (0.5, 0, 0, 255, torch.uint8)
    quantise = torch.ops.quantized_decomposed.quantize_per_tensor.default
    node = graph.call_function(quantise, (x, *grid))
    relu = graph.call_function(RELU, (node,))
    graph.output((relu,))
    lineage = begun(graph)
    assert [lineage.origin(n).created_by for n in (node, relu)] == [QUANTISER, ""]


def test_node_of_an_unknown_graph_has_no_origin() -> None:
    graph = torch.fx.Graph()
    assert Lineage().origin(graph.call_function(RELU, (graph.placeholder("x"),))) == Origin()


@pytest.mark.parametrize(
    ("trace", "source"),
    [
        (None, ""),
        ("no frame at all", ""),
        (f'File "{TORCH}/nn/functional.py", line 1, in relu', ""),
        (f'File "{__file__}", line 3, in f\n  x\nFile "{TORCH}/nn/modules/x.py", line 9, in g', ":3"),
        (f'File "{__file__}", line 3, in f\nFile "{__file__}", line 8, in g', ":8"),
        ('File "/somewhere/else/net.py", line 12, in forward', "net.py:12"),
        ('File "<eval_with_key>.139", line 71, in forward', ""),
        (f'File "{__file__}", line 3, in f\nFile "<eval_with_key>.7", line 71, in forward', ":3"),
    ],
)
def test_line_is_the_innermost_one_outside_of_torch(trace: str | None, source: str) -> None:
    graph = torch.fx.Graph()
    node = graph.call_function(RELU, (graph.placeholder("x"),))
    node.meta["stack_trace"] = trace
    found = begun(graph).origin(node).source
    assert found.endswith(source)
    assert bool(found) == bool(source)
    assert not found.startswith("/")


def test_line_of_a_user_whose_folder_is_named_torch() -> None:
    graph = torch.fx.Graph()
    node = graph.call_function(RELU, (graph.placeholder("x"),))
    node.meta["stack_trace"] = 'File "/home/me/torch/net.py", line 12, in forward'
    assert begun(graph).origin(node).source == "net.py:12"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("L['self'].layers.0", "layers.0"),
        ("L['self']", ""),
        ("layers.0", "layers.0"),
        ("", ""),
    ],
)
def test_module_paths_are_those_of_the_model(path: str, shown: str) -> None:
    graph = torch.fx.Graph()
    node = graph.call_function(RELU, (graph.placeholder("x"),))
    node.meta["nn_module_stack"] = {"outer": ("", Net), "inner": (path, "net.Outer.Inner")}
    origin = begun(graph).origin(node)
    assert (origin.module_path, origin.module_class) == (shown, "Inner")


def test_class_inside_of_a_function_has_its_short_name() -> None:
    class Local(nn.Module):
        pass

    graph = torch.fx.Graph()
    node = graph.call_function(RELU, (graph.placeholder("x"),))
    node.meta["nn_module_stack"] = {"k": ("local", Local)}
    assert begun(graph).origin(node).module_class == "Local"
