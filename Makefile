# Two commands: `make book` makes the book, `make test` passes its tests. Both set up what they need.
PROFILE ?= smoke
PYTHON  ?= python3
VENV    := .venv
RUN     := $(VENV)/bin/python
READY   := $(VENV)/.ready
# In a container one often is root, which Jupyter accepts only when told so; its token stays on.
AS_ROOT  = $(if $(filter 0,$(shell id -u)), --allow-root)

# On Linux PyPI's PyTorch brings gigabytes of CUDA along. Without an NVIDIA driver it comes from PyTorch's own index of builds
# for the CPU; where that has none, from PyPI. `TORCH_INDEX=` names another index, or none.
NVIDIA := $(wildcard /proc/driver/nvidia/version)$(shell command -v nvidia-smi 2>/dev/null)
TORCH_INDEX ?= $(if $(NVIDIA),,$(if $(filter Linux,$(shell uname -s)),https://download.pytorch.org/whl/cpu))
TORCH := sed -n 's/^\(torch==[^ ]*\).*/\1/p' requirements.txt

# What Python has compiled is kept, also where the environment forbids it: here a hundred processes import the same.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: book pages notebooks release test test-fast lab serve benchmarks lint clean

book: $(READY)
	$(RUN) -m lib book --profile $(PROFILE)

# What is published: every page anew, so that the list of pages is whole.
pages: $(READY)
	$(RUN) -m lib book --profile laptop --clean

# The executed notebooks of the pages that were built, alone on a branch of `origin`: there Colab finds them.
NOTEBOOKS := git --work-tree=_build/html/_sources
notebooks: export GIT_INDEX_FILE = $(CURDIR)/_build/notebooks.index
notebooks:
	rm -f "$$GIT_INDEX_FILE"
	$(NOTEBOOKS) add --force -- ':(glob)**/*.ipynb'
	tree=$$($(NOTEBOOKS) write-tree) && commit=$$(git -c user.name=book -c user.email=book@localhost commit-tree -m "Notebooks of $$(git rev-parse --short HEAD)" $$tree) \
	  && git push --quiet --force origin $$commit:refs/heads/notebooks

release: pages
	$(RUN) -m lib print -o _build/release/memory-of-sequence-models.pdf
	cd _build && ../$(RUN) -m zipfile -c release/memory-of-sequence-models.zip html

# One worker more than there are cores, for tests also wait for processes they start. Each has one thread: with more of
# them every worker waits for the others, and burns their time.
WORKERS = $(shell $(RUN) -c "import os; print(1 + (os.cpu_count() or 1))")
UNIT = OMP_NUM_THREADS=1 $(RUN) -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
BROWSER = $(RUN) -m pytest -n $$(($(WORKERS) / 2)) --dist loadscope --no-loadscope-reorder -m browser tests/browser

# The book first: its pages compile each kernel once, which tests at work side by side would each do for themselves. Then
# its pages in a browser beside all other tests, which take longer. What is said of the pages is shown at the end.
test: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m lib book --profile smoke
	$(BROWSER) > _build/browser.log 2>&1 & pages=$$!; trap "kill $$pages 2> /dev/null" EXIT INT TERM; \
	  $(UNIT) -m "not browser"; others=$$?; wait $$pages; shown=$$?; cat _build/browser.log; exit $$((others | shown))

test-fast: $(READY)
	$(UNIT) -m "not browser and not slow" $$($(RUN) -m tests.changed)

lint: $(READY)
	$(RUN) -m ruff check .
	$(RUN) -m mypy

lab: $(READY)
	$(VENV)/bin/jupyter lab --ip 127.0.0.1 --port 8888$(AS_ROOT)

serve: $(READY)
	$(RUN) -m http.server --bind 127.0.0.1 --directory _build/html 8000

benchmarks: $(READY)
	$(RUN) -m pip install --quiet --disable-pip-version-check -r requirements-benchmarks.txt -c requirements.lock
	$(RUN) benchmarks/limits.py
	$(RUN) benchmarks/counting.py
	$(RUN) benchmarks/hierarchical.py
	$(RUN) benchmarks/gradient_recursion.py
	$(RUN) benchmarks/uniform_attention.py
	$(RUN) benchmarks/memorization.py
	$(RUN) benchmarks/selective_scan.py
	$(RUN) benchmarks/recurrent.py
	$(RUN) benchmarks/second_order.py
	$(RUN) benchmarks/screening.py
	$(RUN) benchmarks/training.py
	$(RUN) benchmarks/stacking.py
	$(RUN) benchmarks/generation.py
	$(RUN) benchmarks/generation_growth.py
	$(RUN) benchmarks/linear_recurrence.py
	$(RUN) benchmarks/linear_attention.py
	$(RUN) benchmarks/scoring.py
	$(RUN) benchmarks/gaussian_training.py
	$(RUN) benchmarks/paper_cost.py
	$(RUN) benchmarks/sweep_memory.py
	$(RUN) benchmarks/ppo.py
	$(RUN) benchmarks/own_text.py
	$(RUN) benchmarks/larger_than_memory.py --gigabytes 1
	$(RUN) benchmarks/cluster.py

# One pip has one core, so two bring half of the locked packages each. Where one of these does not exist for this machine its
# half fails without a word, and is left to the line after, which brings all that is missing.
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check --no-compile
HALF = $(PIP) --no-deps $$(sed -n '/^torch==/d; s/^\([A-Za-z][^ ]*==[^ ]*\).*/\1/p' requirements.lock | awk 'NR % 2 == $(1)') 2> /dev/null || true

# Byte code is written on all cores, where pip has one, and not of what hardly a page or test loads: two fifths.
NEVER_IMPORTED := /(tests?|testing|onnx|_inductor|dialects|pip|pandas/io|transformers/(models|generation|pipelines|quantizers))/

# The environment is made anew when what it should hold has changed.
$(READY): requirements.txt requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; assert (3, 11) <= sys.version_info[:2] <= (3, 13), "Python 3.11 to 3.13 is needed; set PYTHON=python3.12, say"'
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(call HALF,0) & { \
	  test -z "$(TORCH_INDEX)" || $(PIP) --no-deps --retries 1 --timeout 10 --index-url "$(TORCH_INDEX)" $$($(TORCH)) \
	    || echo "No PyTorch for this machine at $(TORCH_INDEX): that of PyPI is taken."; $(call HALF,1); wait; }
	$(PIP) -r requirements.txt -c requirements.lock
	$(RUN) -m compileall -qq -j 0 -x '$(NEVER_IMPORTED)' $(VENV)/lib || true
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	$(VENV)/bin/jupytext-config --settings-file $(VENV)/etc/jupyter/labconfig/default_setting_overrides.json set-default-viewer markdown myst
	touch $(READY)

clean:
	rm -rf _build
