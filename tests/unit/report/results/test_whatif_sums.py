from __future__ import annotations

import pytest

from solscope.cli import run


@pytest.mark.parametrize(("top", "left_out"), [(2, True), (100, False)])
def test_the_table_of_operators_closes(
    capsys: pytest.CaptureFixture[str], top: int, left_out: bool
) -> None:
    assert run(["whatif", "demo:h200-normal", "--gpu", "B200", "--top", str(top)]) == 0
    text = capsys.readouterr().out.partition("GPU time per step\n")[2].partition("\n\n")[0]
    rows = {
        name: cells
        for name, *cells in map(str.split, text.replace(" more)", "_more)").splitlines()[1:])
    }
    sums = rows.pop("sum")
    listed = [[float(cell.replace(",", "")) for cell in cells] for cells in rows.values()]
    assert any(name.endswith("_more)") for name in rows) == left_out
    for column, total in enumerate(sums):
        parts = sum(row[column] for row in listed)
        assert parts == pytest.approx(
            float(total.replace(",", "")), abs=0.005 * len(listed) + 0.005
        )
