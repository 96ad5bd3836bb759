"""The exported C as code: checked, clean, the same with every compiler, and safe with numbers that are none."""

import platform
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from stable_baselines3 import PPO, SAC, TD3

from sb3_span.deploy import export, export_c
from sb3_span.deploy.c_code import write_c
from sb3_span.deploy.compiled import CompiledPolicy
from sb3_span.deploy.observations import make_observations
from sb3_span.deploy.policy import DeterministicPolicy
from sb3_span.deploy.verify import verify
from tests.deploy.models import check, lively
from tests.policies.models import name


def test_several_policies_in_one_program(tmp_path):
    export_c(lively(), tmp_path / "third", name="POLICY_3")
    assert "int POLICY_3_act(" in (tmp_path / "third" / "POLICY_3.h").read_text()
    shutil.rmtree(tmp_path / "third")
    for word, actions in (("left", "discrete"), ("Right_2", "box")):
        export_c(lively(actions=actions), tmp_path, name=word)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Right_2.c", "Right_2.h", "left.c", "left.h"]
    program = """
        #include "left.h"
        #include "Right_2.h"
        int main(void) {
            float observation[LEFT_OBSERVATION_SIZE] = {0}, action[RIGHT_2_ACTION_SIZE], scores[LEFT_SCORES_SIZE];
            int32_t choice[LEFT_ACTION_SIZE];
            left_act(observation, choice);
            left_scores(observation, scores);
            Right_2_act(observation, action);
            return 0;
        }"""
    (tmp_path / "main.c").write_text(program)
    command = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", "main.c", "left.c", "Right_2.c", "-lm", "-o", "main"]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
    assert subprocess.run([tmp_path / "main"]).returncode == 0


def test_a_compiler_of_ones_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "gcc -DX=1")
    check(lively(), tmp_path)
    monkeypatch.setenv("CC", "nocompiler -O3")
    with pytest.raises(ValueError, match="CC is 'nocompiler -O3', and 'nocompiler' was not found"):
        check(lively(), tmp_path)


def test_export_needs_no_yaml():
    """Which comes with extras that it does without."""
    script = "import sys; sys.modules['yaml'] = None; import sb3_span.deploy"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_wrong_code_is_noticed_and_not_written(tmp_path, monkeypatch):
    correct = export.write_c

    def wrong(*args):
        files = correct(*args)
        return {**files, "policy.c": files["policy.c"].replace("0.5f * (", "0.5001f * (")}

    monkeypatch.setattr(export, "write_c", wrong)
    with pytest.raises(ValueError, match="does not act as predict"):
        export_c(lively(SAC), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("actions", ["box", "discrete"])
def test_wrong_actions_are_noticed(actions):
    policy = DeterministicPolicy(lively(actions=actions))

    def act(observation):
        chosen = policy.predict(observation)
        return np.full_like(chosen, np.nan) if actions == "box" else 1 - chosen

    with pytest.raises(ValueError, match="does not act as predict"):
        verify(policy, act, make_observations(policy, None), "This")


def test_not_finite(tmp_path):
    model = lively()
    model.policy.action_net.weight.data[0, 0] = np.nan
    with pytest.raises(ValueError, match="weight that is not finite"):
        export_c(model, tmp_path)


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("algo, actions", [(SAC, "box"), (PPO, "multidiscrete")], ids=name)
def test_clean_self_contained_and_without_heap(compiler, algo, actions, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} here")
    export_c(lively(algo, actions=actions), tmp_path)
    source = (tmp_path / "policy.c").read_text()
    assert set(re.findall(r"#include (.*)", source + (tmp_path / "policy.h").read_text())) <= {'"policy.h"', "<stdint.h>"}
    strict = ["-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wunused-function", "-Wdouble-promotion", "-O2"]
    subprocess.run([compiler, *strict, "-c", "policy.c"], cwd=tmp_path, check=True)
    symbols = subprocess.run(["nm", "policy.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    kinds = {line.split()[-1]: line.split()[-2] for line in symbols.splitlines()}
    # Nothing from outside but what the compiler may want for copying, no memory that is written to.
    assert {symbol for symbol, kind in kinds.items() if kind == "U"} <= {"memcpy", "memset", "_GLOBAL_OFFSET_TABLE_"}
    assert not set(kinds.values()) & set("bBdDC")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.skipif(platform.machine() != "x86_64", reason="looks for x86's instructions")
def test_nothing_is_fused(compiler, tmp_path):
    if not shutil.which(compiler):
        pytest.skip(f"there is no {compiler} here")
    export_c(lively(), tmp_path)
    command = [compiler, "-std=c99", "-O2", "-mfma", "-S", "policy.c", "-o", "-"]
    assembly = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "mulss" in assembly and "fmadd" not in assembly


def test_a_nan_does_not_run_out_of_the_tables(tmp_path):
    """What comes out is a NaN, as from predict, and not what lies in memory elsewhere; likewise for the infinite."""
    policy = DeterministicPolicy(lively(TD3))

    strange = np.array([[np.nan, 0, 0], [np.inf, 0, 0], [0, -np.inf, 1e30]], np.float32)
    with CompiledPolicy(policy, write_c(policy, "")) as compiled:
        actions = compiled(strange)
    np.testing.assert_allclose(actions, policy.predict(strange), atol=1e-5)
    assert np.isnan(actions[0]).all()


@pytest.mark.parametrize("int8", [False, True], ids=["float", "int8"])
@pytest.mark.parametrize("mlp", [False, True], ids=["span", "mlp"])
@pytest.mark.parametrize("actions", ["discrete", "multidiscrete", "multibinary", "box"])
def test_an_observation_that_is_not_a_number(actions, mlp, int8, tmp_path):
    """An error code, and the action is left as it was; the scores tell too."""
    kwargs = dict(policy="MlpPolicy", policy_kwargs=dict(net_arch=[6]), span_arch=None) if mlp else {}
    export_c(lively(actions=actions, **kwargs), tmp_path, int8=int8)
    header = (tmp_path / "policy.h").read_text()
    assert "Returns:" in header and "the action is left as it was" in " ".join(header.replace("*", " ").split())
    kind = "float" if actions == "box" else "int32_t"
    scores = "" if actions == "box" else "float s[POLICY_SCORES_SIZE]; if (!policy_scores(o, s)) return 10;"
    program = f"""
        #include <math.h>
        #include "policy.h"
        int main(void) {{
            float o[POLICY_OBSERVATION_SIZE] = {{0}};
            {kind} a[POLICY_ACTION_SIZE];
            for (int i = 0; i < POLICY_ACTION_SIZE; i++) a[i] = 77;
            if (policy_act(o, a) != POLICY_OK) return 1;
            for (int i = 0; i < POLICY_ACTION_SIZE; i++) if (a[i] == 77) return 2; else a[i] = 77;
            for (int k = 0; k < POLICY_OBSERVATION_SIZE; k++) {{
                o[k] = NAN;
                if (policy_act(o, a) != POLICY_NOT_A_NUMBER) return 3;
                for (int i = 0; i < POLICY_ACTION_SIZE; i++) if (a[i] != 77) return 4;
                {scores}
                o[k] = 0;
            }}
            return 0;
        }}"""
    (tmp_path / "main.c").write_text(program)
    subprocess.run(["gcc", "-std=c99", "-O2", "main.c", "policy.c", "-lm", "-o", "main"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"]).returncode == 0
