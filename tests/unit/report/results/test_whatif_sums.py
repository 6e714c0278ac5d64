from __future__ import annotations

import pytest

from solscope.cli import run


@pytest.mark.parametrize("top", [2, 100])
def test_the_table_of_operators_closes(capsys: pytest.CaptureFixture[str], top: int) -> None:
    assert run(["whatif", "demo:h200-normal", "--gpu", "B200", "--top", str(top)]) == 0
    text = capsys.readouterr().out.partition("GPU time per step\n")[2].partition("\n\n")[0]
    lines = text.replace(" more)", "_more)").replace(",", "").splitlines()[1:]
    *parts, sums = [[float(cell) for cell in line.split()[1:]] for line in lines]
    assert lines[-1].startswith("sum ")
    assert len(parts) > 2
    rounding = 0.005 * (len(parts) + 1)
    for column, total in enumerate(sums):
        assert sum(row[column] for row in parts) == pytest.approx(total, abs=rounding)
