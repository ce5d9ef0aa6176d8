# Makes .venv from nothing but Python, once per state of pyproject.toml and constraints.txt.
# Sourced by ./run and ./test, from the root of the repository:  . .ci/venv.sh; make_venv run|test

python_ok() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    local name
    for name in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$name" >/dev/null 2>&1 && python_ok "$name"; then
            echo "$name"
            return
        fi
    done
    echo "mainstem needs Python 3.11 or newer, and found none on PATH." >&2
    return 1
}

# What a tier needs, as requirements for pip. pip reads dependency groups by itself only since 25.1.
wanted() {
    if [ "$1" != test ]; then
        # Without Java there are no pipelines, and Spark is large.
        if command -v java >/dev/null 2>&1; then
            printf '%s\n' -e '.[demo]'
        else
            printf '%s\n' -e .
        fi
    else
        printf '%s\n' -e '.[all]'
        .venv/bin/python -c '
import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["dependency-groups"]["dev"], sep="\n")'
    fi
}

make_venv() {
    local tier=$1 state python
    python=$(find_python) || return 1
    # The place belongs to the state, because a venv that was moved or copied does not work.
    state=$("$python" -c '
import hashlib, os, pathlib
parts = [os.getcwd().encode(), *(pathlib.Path(n).read_bytes() for n in ("pyproject.toml", "constraints.txt"))]
print(hashlib.sha256(b"\0".join(parts)).hexdigest())') || return 1
    # What tests need includes what running needs.
    if [ -x .venv/bin/python ] && cat ".venv/.installed-$tier" .venv/.installed-test 2>/dev/null |
        grep -qx "$state"; then
        return
    fi
    if ! python_ok .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
        echo "== making .venv with $("$python" --version)"
        rm -rf .venv
        if ! "$python" -m venv .venv; then
            rm -rf .venv
            echo "Python could not make a virtual environment; on Debian: apt install python3-venv" >&2
            return 1
        fi
    fi
    echo "== installing what $tier needs into .venv (once; versions from constraints.txt)"
    local requirements=()
    mapfile -t requirements < <(wanted "$tier")
    # By environment, so that it holds for the build of the package itself, too.
    if ! PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 \
        .venv/bin/python -m pip install --quiet --no-compile "${requirements[@]}"; then
        echo "pip could not install the above; is there a network, or a proxy to name?" >&2
        return 1
    fi
    # By all cores, where pip would use one; some packages have files that are not for this Python.
    .venv/bin/python -m compileall -q -j 0 .venv/lib >/dev/null 2>&1
    echo "$state" >".venv/.installed-$tier"
}
