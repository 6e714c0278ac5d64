"""The baseline of `solscope diagnose`: a folder of recordings, or a store of profiles."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from solscope.diagnose.diagnosis import Diagnosis
    from solscope.readers.packed import Observations

Open = Callable[[str], "Observations"]


def diagnose_with(baseline: str, path: str, observed: Open) -> Diagnosis:
    """Diagnose the profile at `path` against all recordings of the baseline."""
    from solscope.corpus.location import is_store

    return (_against_store if is_store(baseline) else _against_folder)(baseline, path, observed)


def _against_folder(folder: str, path: str, observed: Open) -> Diagnosis:
    from solscope.diagnose.baseline import diagnose_against, require_enough
    from solscope.errors import InputError
    from solscope.readers import find_profiles

    # The run itself may lie beside those that it is compared with.
    own = Path(path).resolve()
    files = [str(file) for file in find_profiles([folder])]
    if files == [folder] and not Path(folder).exists():
        raise InputError(f"{folder}: no such folder of recordings or store")
    others = [file for file in files if Path(file).resolve() != own]
    require_enough(len(others))
    return diagnose_against([observed(file) for file in others], observed(path))


def _against_store(store: str, path: str, observed: Open) -> Diagnosis:
    """Step times of all profiles are in the store; only the most typical one is opened."""
    import numpy as np

    from solscope.corpus.queries.step_means import step_means
    from solscope.corpus.store import open_corpus
    from solscope.diagnose.baseline import (
        against_typical,
        means_of_all,
        predicted,
        require_enough,
        step_times,
        unseen_share,
    )
    from solscope.errors import InputError

    own = Path(path).resolve()
    stored = [
        recording
        for recording in step_means(open_corpus(store))
        if Path(recording.file).resolve() != own
    ]
    require_enough(len(stored))
    times = step_times([recording.phases for recording in stored])
    logs = np.log(times)
    nearest = np.argsort(np.abs(logs - logs.mean()), kind="stable")
    chosen = next((int(n) for n in nearest if Path(stored[int(n)].file).exists()), None)
    if chosen is None:
        raise InputError(
            f"{store}: no profile of this store is at its path any more ({stored[0].file}, ...); "
            "causes need one of them: pass a folder of recordings"
        )
    typical, run = observed(stored[chosen].file), observed(path)
    # The store has steps from first start to last end; a diagnosis measures start to start. Their
    # ratio carries over, all steps counted on both sides, as the store does.
    of_typical, of_run = (means_of_all(recording) for recording in (typical, run))
    sides = step_times([of_typical, of_run])
    times = np.append(times, times[chosen] * sides[1] / sides[0])
    unseen = unseen_share(stored[chosen].phases, of_typical)
    return against_typical(typical, run, predicted(times[:-1]), np.empty(0), times, unseen=unseen)
