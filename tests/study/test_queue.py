"""The queue: every run once, whoever dies and whoever comes at the same moment."""

import contextlib
import multiprocessing
import uuid

import optuna
import pytest

from sb3_span.study.plan import Plan
from sb3_span.study.queue import GRACE, HEARTBEAT, Queue
from tests.study.clock import Clock
from tests.study.runs import make_plan, ppo_run

RUNS = [ppo_run(seed=seed) for seed in range(4)]


@pytest.fixture
def plan():
    return make_plan(*RUNS, name=uuid.uuid4().hex)


@pytest.fixture
def open_queue(storage):
    with contextlib.ExitStack() as stack:
        yield lambda plan, **timing: stack.enter_context(Queue(plan, storage, **timing))


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def claim_everything(queue):
    claims = []
    while claim := queue.claim():
        claims.append(claim)
    return claims


def test_runs_are_taken_in_order_and_once(plan, open_queue):
    one, other = open_queue(plan), open_queue(plan)
    one.refill()
    other.refill()
    taken = [queue.claim().run.seed for queue in (one, other, one, other)]
    assert taken == [0, 1, 2, 3]
    assert one.claim() is None and other.claim() is None
    assert {state.name for state in one.states().values()} == {"running"}


def test_a_run_ends_in_one_of_three_ways(plan, open_queue):
    queue = open_queue(plan)
    queue.refill()
    done, failed, back, _ = claim_everything(queue)
    queue.report(done.trial_id, 200, 10.0)
    queue.complete(done.trial_id, 20.0)
    queue.fail(failed.trial_id, "the reason")
    queue.release(back.trial_id)
    queue.refill()
    states = open_queue(plan).states()
    assert [states[run.key].name for run in plan.runs] == ["done", "failed", "waiting", "running"]
    assert states[failed.run.key].error == "the reason"
    assert [claim.run for claim in claim_everything(queue)] == [back.run]
    database = optuna.storages.RDBStorage(queue.opening[1])
    trials = optuna.load_study(study_name=plan.name, storage=database).trials
    database.engine.dispose()
    trial = next(trial for trial in trials if trial.user_attrs["key"] == done.run.key)
    assert trial.intermediate_values == {200: 10.0} and trial.value == 20.0
    assert trial.user_attrs["env"] == "CartPole-v1" and trial.user_attrs["method"] == "span"


def test_failed_runs_wait_again_when_asked(plan, open_queue):
    queue = open_queue(plan)
    queue.refill()
    queue.fail(queue.claim().trial_id, "the reason")
    claim_everything(queue)
    queue.refill()
    assert queue.claim() is None
    assert queue.retry() == [plan.runs[0]]
    assert queue.claim().run == plan.runs[0]
    assert queue.retry() == []


def test_a_run_without_signs_of_life_is_taken_by_another(plan, open_queue, clock):
    queue = open_queue(plan)
    queue.refill()
    dead, *others = claim_everything(queue)

    def pass_time(seconds):
        for _ in range(0, seconds, HEARTBEAT):
            clock.advance(queue, HEARTBEAT)
            for claim in others:
                queue.beat(claim.trial_id)
            queue.refill()

    pass_time(GRACE - HEARTBEAT)
    assert queue.claim() is None
    pass_time(2 * HEARTBEAT)
    again, alive = queue.claim(), others[0]
    assert again.run == dead.run and again.trial_id != dead.trial_id
    # The one that was taken for dead finds out, and what it says comes too late.
    assert not queue.is_running(dead.trial_id) and queue.is_running(alive.trial_id)
    queue.report(dead.trial_id, 200, 1.0)
    queue.complete(dead.trial_id, 1.0)
    assert queue.states()[dead.run.key].name == "running"


def test_after_an_outage_runs_may_first_give_a_sign_of_life(plan, open_queue, clock):
    busy, idle = open_queue(plan), open_queue(plan)
    busy.refill()
    claims = claim_everything(busy)
    idle.refill()
    clock.advance(idle, 2 * GRACE)  # nobody reaches the database, and the idle worker is the first to be back
    idle.refill()
    assert idle.claim() is None and all(busy.is_running(claim.trial_id) for claim in claims)
    busy.beat(claims[0].trial_id)
    clock.advance(idle, HEARTBEAT)
    idle.refill()
    assert all(busy.is_running(claim.trial_id) for claim in claims)
    clock.advance(idle, HEARTBEAT)
    idle.refill()
    assert [claim for claim in claims if not busy.is_running(claim.trial_id)] == claims[1:]


def start_and_claim(plan: Plan, storage: str, barrier, results) -> None:
    barrier.wait()
    with Queue(plan, storage) as queue:
        queue.refill()
        barrier.wait()  # all have filled the queue, and now all take from it
        results.put([claim.run.key for claim in claim_everything(queue)])


def test_machines_that_start_at_the_same_moment_run_nothing_twice(storage, open_queue):
    plan = make_plan(*(ppo_run(seed=seed) for seed in range(30)), name=uuid.uuid4().hex)
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(3), context.Queue()
    machines = [context.Process(target=start_and_claim, args=(plan, storage, barrier, results)) for _ in range(3)]
    for machine in machines:
        machine.start()
    claims = [key for _ in machines for key in results.get(timeout=120)]
    for machine in machines:
        machine.join()
    assert sorted(claims) == sorted(run.key for run in plan.runs)
    assert {state.name for state in open_queue(plan).states().values()} == {"running"}


def test_a_return_that_is_no_number_does_not_spoil_the_queue(plan, open_queue):
    queue = open_queue(plan)
    queue.refill()
    claim = queue.claim()
    queue.report(claim.trial_id, 200, float("nan"))
    queue.complete(claim.trial_id, float("nan"))
    assert open_queue(plan).states()[claim.run.key].name == "done"


def test_a_run_whose_record_is_gone_waits_again(plan, open_queue):
    queue = open_queue(plan)
    queue.refill()
    claim = queue.claim()
    queue.complete(claim.trial_id, 1.0)
    queue.discard([claim.run.key])
    queue.refill()
    assert queue.claim().run == claim.run


def test_a_study_of_the_same_name_with_other_settings(plan, open_queue):
    open_queue(plan).refill()
    other = make_plan(ppo_run(learning_rate=0.1), name=plan.name)
    with pytest.raises(ValueError, match=r"other settings.*another name"):
        open_queue(other).refill()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("nonsense", "--storage nonsense: .*Give an address such as postgresql://"),
        ("oracle://host/database", "--storage oracle"),
        ("postgresql://nobody@127.0.0.1:1/nothing", "the database does not answer"),
    ],
)
def test_a_database_that_is_not_there(plan, address, message, clock):
    with pytest.raises(ValueError, match=message):
        Queue(plan, address)
