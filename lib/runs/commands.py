"""The commands on experiments: do their runs, and compare their fingerprints."""

from __future__ import annotations

from typing import Any

import click
from click.core import ParameterSource

from lib import ROOT, plain_yaml


def values_of(assignments: tuple[str, ...]) -> dict[str, Any]:
    """Names and values in YAML of assignments such as "width=8" or "rate=1e-2".

    Raises ValueError for what is none, and for a name that is given twice.
    """
    given: dict[str, Any] = {}
    for text in assignments:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise ValueError(f"name=value is allowed, got {text!r}")
        if name in given:
            raise ValueError(f"{name}: one value is allowed, got {name} twice, the second time as {text!r}")
        try:
            given[name] = plain_yaml.load(value)
        except ValueError as error:
            raise ValueError(f"{name}: a value in YAML is allowed, got {value!r}") from error
    return given


OF_A_JOB = ("queue", "account", "walltime", "memory", "cores")


@click.command()
@click.argument("name")
@click.option("--profile", default="laptop", show_default=True, help="Which grid of the experiment.")
@click.option(
    "--where",
    multiple=True,
    metavar="NAME=VALUE",
    help="Only runs with this value of a parameter, of one inside another (fit.epochs=12), or of seed.",
)
@click.option("--workers", default=None, type=click.IntRange(min=1), help="Runs at once here [default: one per core].")
@click.option("--scheduler", default=None, metavar="ADDRESS", help="Send the runs to this Dask scheduler.")
@click.option(
    "--slurm", default=None, type=click.IntRange(min=1), metavar="JOBS", help="Start SLURM jobs of one run at a time."
)
@click.option("--queue", default=None, help="SLURM partition.")
@click.option("--account", default=None, help="SLURM account.")
@click.option("--walltime", default="04:00:00", show_default=True, help="Of a SLURM job.")
@click.option("--memory", default="8GB", show_default=True, help="Of a SLURM job.")
@click.option("--cores", default=1, show_default=True, type=click.IntRange(min=1), help="Of a SLURM job.")
@click.option("--shard", default=None, metavar="I/N", help="Do part I of N in this process, without a scheduler.")
@click.option("--device", default="cpu", show_default=True, type=click.Choice(["cpu", "cuda"]), help="Where to train.")
@click.option(
    "--threads", default=None, type=click.IntRange(min=1), help="Of each run [default: 1; with --slurm its cores]."
)
@click.option("--together", default=None, type=click.IntRange(min=1), help="Runs whose updates are one CUDA graph.")
@click.option("--budget", default=None, metavar="TIME", help="Only what fits into 2h or 90m, by recorded times.")
@click.option("--dry-run", is_flag=True, help="List the runs that are not done, and the SLURM script; start nothing.")
def sweep(
    name: str, profile: str, where: tuple[str, ...], device: str, threads: int | None, dry_run: bool, **how: Any
) -> None:
    """Do all runs of the experiment NAME that are not done yet.

    Several workers take the longest runs first, so that they end together; one takes the settings first that need the
    least. Small runs may share a GPU in one process, --device cuda --together 8, or in several, --workers 8.
    """
    from lib.machine import available_cores
    from lib.runs.definition import Experiment, check
    from lib.runs.forecast import (
        cheapest_settings_first,
        duration,
        forecast,
        in_words,
        longest_first,
        makespan,
        records_of,
        strange,
        within,
    )
    from lib.runs.store import store_of
    from lib.runs.sweep import chosen, clear_half_written, graphics_cards, in_short, shard

    if sum(how[way] is not None for way in ("scheduler", "slurm", "shard")) > 1:
        raise ValueError("one of --scheduler, --slurm and --shard is allowed")
    if how["together"] is not None and (how["scheduler"] is not None or how["slurm"] is not None):
        raise ValueError("--together is of one process: --shard is allowed with it, --scheduler and --slurm are not")
    if how["together"] is not None and device != "cuda":
        raise ValueError(f"--together makes one graph of updates on a GPU: --device cuda is needed, got {device}")
    if how["workers"] is not None and (how["together"] is not None or how["shard"] is not None):
        raise ValueError("--workers are processes: --together and --shard have one")
    if how["workers"] is not None and (how["scheduler"] is not None or how["slurm"] is not None):
        raise ValueError("--workers are processes of this machine: --scheduler and --slurm have their own")
    source = click.get_current_context().get_parameter_source
    given = [f"--{name}" for name in OF_A_JOB if source(name) is ParameterSource.COMMANDLINE]
    if how["slurm"] is None and given:
        raise ValueError(f"{', '.join(given)}: allowed with --slurm, whose jobs these describe")
    threads = threads or (how["cores"] if how["slurm"] else 1)
    if how["budget"] is not None and how["scheduler"] is not None:
        raise ValueError("--budget needs to know how many run at once: --workers, --slurm and --shard say it")
    budget = None if how["budget"] is None else duration(how["budget"])  # before all records are read
    asked = values_of(where)
    experiment, store = Experiment(name), store_of(profile)
    runs = chosen(experiment.runs(profile), asked)
    if how["shard"] is not None:
        runs = shard(runs, how["shard"])
    states = {run.identity: store.state(run) for run in runs}
    missing = [run for run in runs if states[run.identity] != "current"]
    check(missing)  # before anything starts
    click.echo(f"{len(runs)} runs, {len(runs) - len(missing)} of them done")
    records = records_of(experiment, store, device)
    costs, unlike = forecast(missing, records), strange(missing, records)
    beyond = "they are more than twice as large as what is recorded on such a device, or of a kind that is not"
    beyond = beyond if records else "none of this experiment is recorded on such a device"
    alone = how["shard"] is not None or how["together"] is not None
    workers = 1 if alone else how["slurm"] or how["workers"] or available_cores()
    if budget is not None:
        if missing and len(unlike) == len(missing):
            what = f"the time of the {len(missing)} runs that are not done is not known: {beyond}"
            raise ValueError(f"budget: {what}; start without a budget")
        missing = within([run for run in missing if run.identity not in unlike], costs, budget, workers)
        left_out = f"; {len(unlike)} are left out: {beyond}" if unlike else ""
        if states and any(state != "current" for state in states.values()):
            click.echo(f"{len(missing)} of the others fit into {how['budget']} on {workers} at once{left_out}")
    known = {run.identity: costs[run.identity] for run in missing if run.identity not in unlike}
    if (total := sum(known.values())) > 0:
        side_by_side = (
            "" if how["scheduler"] else f", {in_words(makespan(known.values(), workers))} with {workers} at once"
        )
        click.echo(f"about {in_words(total)} of one {'GPU' if device == 'cuda' else 'core'}{side_by_side}")
    if unknown := len(missing) - len(known):
        click.echo(f"{unknown} {'others' if known else 'runs'} whose time is not known: {beyond}")
    if dry_run:
        for run in missing:
            click.echo(f"{run}  {states[run.identity]}  {in_short(run)}")
        if how["slurm"]:
            with _slurm(0, how) as cluster:  # its scheduler listens until it is closed
                click.echo(cluster.job_script())
        return
    if missing:
        if device == "cuda" and how["scheduler"] is None and how["slurm"] is None:
            graphics_cards()  # elsewhere it is the workers that need one
        clear_half_written(store.work)
        in_turn = longest_first if workers > 1 or how["together"] is not None else cheapest_settings_first
        ordered = in_turn(missing, costs if records else forecast(missing, records_of(experiment, store)))
        _report(_sweep(ordered, store, device, threads, how, {} if unknown else known))


def _sweep(runs: list[Any], store: Any, device: str, threads: int, how: dict[str, Any], costs: dict[str, float]) -> Any:
    from lib.machine import keep_freed_memory
    from lib.runs.sweep import client_of, local_client, run_here, run_on_cluster
    from lib.runs.together import run_together

    def tell(line: str) -> None:
        click.echo(line, err=True)

    if how["together"] is not None:
        keep_freed_memory()
        return run_together(runs, store, how["together"], device, threads, tell, costs)
    if how["shard"] is not None:
        keep_freed_memory()
        return run_here(runs, store, device, threads, tell, costs)
    if how["slurm"]:
        with _slurm(how["slurm"], how) as cluster, client_of(cluster.scheduler_address) as client:
            return run_on_cluster(runs, store, client, device, threads, tell, costs)
    opened = client_of(how["scheduler"]) if how["scheduler"] else local_client(how["workers"])
    with opened as client:
        return run_on_cluster(runs, store, client, device, threads, tell, costs)


def _slurm(jobs: int, how: dict[str, Any]) -> Any:
    from lib.runs.slurm import slurm_cluster

    return slurm_cluster(jobs, **{name: how[name] for name in OF_A_JOB})


def _report(outcome: Any) -> None:
    click.echo(f"{len(outcome.done)} done, {len(outcome.elsewhere)} in another process, {len(outcome.failed)} failed")
    if outcome.failed:
        raise click.ClickException("start again to repeat what failed; what is done is kept")


@click.command()
@click.argument("names", nargs=-1)
@click.option("--write", is_flag=True, help="Keep what is new, or everything if `version` was raised.")
@click.option("--point", "part", default="", metavar="TEXT", help="Only points whose names contain this.")
@click.option("--device", default="cpu", show_default=True, type=click.Choice(["cpu", "cuda"]), help="Where to run.")
def fingerprint(names: tuple[str, ...], write: bool, part: str, device: str) -> None:
    """Run the tiny runs of the experiments NAMES (default: all), and compare them with the kept numbers.

    Where they differ, results changed: undo the edit, or raise `version` of the experiment and train again. On a GPU,
    whether it finds what the CPU found.
    """
    from lib.runs import choices, fingerprints
    from lib.runs.definition import Experiment, experiment_files
    from lib.runs.sweep import graphics_cards

    if write and part:
        raise ValueError("one of --write and --point is allowed: a part of a fingerprint is not kept alone")
    if write and device != "cpu":
        raise ValueError(f"--write keeps numbers of the CPU, got --device {device}")
    if device == "cuda":
        graphics_cards()
    experiments = [Experiment(name) for name in names or sorted(experiment_files())]
    faults, new = choices.default_faults(experiments, choices.kept_defaults())
    faults += [f"{field}: not kept yet: `python -m lib fingerprint --write` adds it" for field in new]
    if write:
        click.echo(f"kept {choices.write_defaults(experiments).relative_to(ROOT)}")
        faults = []
    met = 0
    for experiment in experiments:
        done = fingerprints.check(experiment, lambda point: part in point.name, progress=True, device=device)
        met += len(done.found) + len(done.absent)
        click.echo(f"{experiment.name}: {len(done.found)} points, {len(done.faults) or 'no'} differences")
        for point in done.absent:
            click.echo(f"{experiment.name}: {point.name}: left out, {point.why}")
        if write:
            click.echo(f"kept {fingerprints.write(done).relative_to(ROOT)}")
        else:
            faults += done.faults
    if part and not met:
        raise ValueError(f"point: a part of the name of a point is allowed, got {part!r}")
    if faults:
        raise click.ClickException("\n".join(faults))
