"""`unstale serve` over HTTP: what it shows, what it refuses, what it never obeys."""

import errno
import html
import http.client
import re
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from socketserver import TCPServer
from unittest.mock import Mock
from urllib.parse import quote

import pytest
from sentence_transformers import SentenceTransformer

from unstale.cli.main import main
from unstale.cli.options_inspect import ServeFlags
from unstale.cli.serve import open_page
from unstale.cli.signals import Terminated
from unstale.data.dataset import RetrievalDataset, Texts
from unstale.serve.page import LONGEST
from unstale.serve.server import PageServer, listen

HOSTILE = "<script>document.documentElement.dataset.run = 1</script>"


@contextmanager
def serving(page) -> Iterator[int]:
    with listen(0) as server:
        server.page = page
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def get(port: int, path: str, host: str | None = None) -> tuple[int, str, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.headers


def sides(text: str) -> list[list[tuple[int, float, str, str]]]:
    """Read `(rank, score, moved, id)` of each side, as a person would."""
    found = []
    for side in text.split('<section class="sides">')[1].split("<h2>")[1:]:
        items = re.findall(
            r'<b>(\d+)</b> <span class="score">(-?[\d.]+)</span> <span class="\w+">(.*?)</span> '
            r"<code>(.*?)</code>",
            side,
        )
        found.append([(int(r), float(s), html.unescape(m), i) for r, s, m, i in items])
    return found


def test_two_hundred_clients_at_once_are_answered() -> None:
    with serving(lambda query: f"<p>{query}</p>") as port, ThreadPoolExecutor(200) as clients:
        found = list(clients.map(lambda i: get(port, f"/?q={i}")[:2], range(200)))
    assert found == [(200, f"<p>{i}</p>") for i in range(200)]
    with listen(0) as busy, ExitStack() as stack:  # which accepts none of them yet
        for _ in range(200):
            client = socket.create_connection(("127.0.0.1", busy.server_address[1]), timeout=5)
            stack.enter_context(client)


def test_a_request_that_drips_in_is_closed() -> None:
    with listen(0) as server:
        server.page, server.patience = str.upper, 0.2
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with socket.create_connection(("127.0.0.1", server.server_address[1]), 10) as client:
            client.sendall(b"GET / HTTP/1.1\r\n")
            with suppress(OSError):
                for _ in range(200):  # for two seconds, ten times its patience
                    client.sendall(b"X: y\r\n")
                    client.settimeout(0.01)
                    with suppress(TimeoutError):
                        if not client.recv(1):
                            break
            client.settimeout(10)
            with suppress(ConnectionError):
                assert client.recv(1) == b""  # the server has hung up
        assert not server.waiting
        server.shutdown()
        thread.join()


def test_without_descriptors_the_server_waits_instead_of_spinning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[float] = []

    def none_left(self: object) -> None:
        calls.append(time.monotonic())
        raise OSError(errno.EMFILE, "Too many open files")

    with serving(str.upper) as port:
        monkeypatch.setattr(TCPServer, "get_request", none_left)
        with socket.create_connection(("127.0.0.1", port)):
            time.sleep(0.35)
            monkeypatch.undo()
        assert 1 <= len(calls) <= 6  # thousands, if it did not wait
        assert get(port, "/?q=a")[1] == "A"


@pytest.fixture(scope="module")
def port(trained: Path) -> Iterator[int]:
    with serving(open_page(ServeFlags(str(trained), k=5))) as port:
        yield port


def test_both_models_are_shown_with_scores_and_moved_ranks(
    port: int, trained: Path, bert_folder: Path, dataset: RetrievalDataset
) -> None:
    query = "which violin was golden?"
    status, text, _ = get(port, f"/?q={quote(query)}")
    assert status == 200
    before, after = sides(text)
    # Both rankings once more, by sentence-transformers alone.
    base = SentenceTransformer(str(trained / "model"), device="cpu")
    orders, scores = [], []
    for model in (None, base):
        if model is None:
            model = SentenceTransformer(str(bert_folder), device="cpu")
            layers = model[0].model.encoder.layer
            model[0].model.encoder.layer = layers[:1]
        queries = model.encode_query([query], convert_to_tensor=True)
        targets = model.encode_document(list(dataset.targets), convert_to_tensor=True)
        found = (queries @ targets.T)[0]
        orders.append([dataset.target_ids[i] for i in found.argsort(descending=True).tolist()])
        scores.append(found.sort(descending=True).values.tolist())
    assert orders[0][:5] != orders[1][:5]  # training moved something
    for side, shown in enumerate((before, after)):
        assert [r for r, _, _, _ in shown] == [1, 2, 3, 4, 5]
        assert [i for _, _, _, i in shown] == orders[side][:5]
        assert [s for _, s, _, _ in shown] == pytest.approx(scores[side][:5], abs=6e-4)
        for rank, _, moved, key in shown:
            other = orders[1 - side].index(key) + 1
            words = "= stays" if other == rank else f"{('goes to', 'was')[side]} {other}"
            assert moved.endswith(words)
            if other != rank:  # up is nearer after training than before
                assert moved[0] == ("▲" if (other > rank) == bool(side) else "▼")


def test_the_first_page_asks_for_a_query(port: int) -> None:
    _, text, _ = get(port, "/")
    assert "Type a query" in text
    assert '<section class="sides">' not in text


def test_a_rag_run_answers_with_its_sources(read: Path) -> None:
    with serving(open_page(ServeFlags(str(read), k=4))) as port:
        _, text, _ = get(port, "/?q=which+river+was+deep%3F")
    assert '<p class="said">' in text
    sources = text.split("<details>")[1].split("</details>")[0]
    shares = [float(p) for p in re.findall(r"<b>([\d.]+)%</b>", sources)]
    assert len(shares) == 3  # --k 3
    assert sum(shares) == pytest.approx(100, abs=0.2)
    assert len(sides(text)[1]) == 4


def test_nothing_in_a_text_is_obeyed(trained: Path) -> None:
    page = open_page(ServeFlags(str(trained)))
    texts = [f"{HOSTILE} {text}" for text in page.dataset.targets]
    page = replace(page, name=HOSTILE, dataset=replace(page.dataset, targets=Texts.of(texts)))
    with serving(page) as port:
        _, text, headers = get(port, f"/?q={quote(HOSTILE + chr(34) + ' onfocus=alert(1) ')}")
    assert "<script" not in text
    assert html.escape(HOSTILE) in text
    assert 'value="&lt;script&gt;' in text
    assert '" onfocus' not in text
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_what_is_not_the_page(port: int) -> None:
    assert get(port, "/etc/passwd")[0] == 404
    assert get(port, "/", host="evil.example")[0] == 421  # a name that was made to point here
    assert get(port, "/", host=f"localhost:{port}")[0] == 200
    assert get(port, "/", host="[")[0] == 400
    status, text, _ = get(port, f"/?q={'x' * (LONGEST + 1)}")
    assert (status, f'value="{"x" * LONGEST}"' in text) == (200, True)  # the beginning


def test_a_search_that_fails_does_not_end_the_server(capfd) -> None:
    def page(query: str) -> str:
        if query:
            raise RuntimeError("no memory")
        return "well"

    with serving(page) as port:
        assert get(port, "/?q=x")[0] == 500
        assert get(port, "/")[1] == "well"
    assert "no memory" in capfd.readouterr().err


def test_what_cannot_be_served(tmp_path: Path, trained: Path, capsys) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = str(taken.getsockname()[1])
        assert main(["serve", str(trained), "--port", used]) == 2
    assert f"port {used} is in use: choose another" in capsys.readouterr().err
    assert main(["serve", str(trained), "--port", "70000"]) == 2
    assert "--port must be at most 65535, got 70000" in capsys.readouterr().err
    assert main(["serve", str(tmp_path), "--port", "0"]) == 2
    assert "is not a finished training run (no model/)" in capsys.readouterr().err


def test_a_terminated_server_says_so(trained: Path, monkeypatch, capsys) -> None:
    for error, code, said in ((Terminated(), 143, ""), (KeyboardInterrupt(), 0, "stopped\n")):
        monkeypatch.setattr(PageServer, "serve_forever", Mock(side_effect=error))
        assert main(["serve", str(trained), "--port", "0"]) == code
        out = capsys.readouterr()
        assert out.out.endswith(said)
        assert ("unstale serve: terminated" in out.err) == (code == 143)


def test_a_cell_of_a_comparison_is_a_run(trained: Path, tmp_path: Path, capsys) -> None:
    """Lay a finished run out as `unstale compare` does."""
    cell = tmp_path / "cells" / "corrected-0"
    cell.parent.mkdir()
    shutil.copytree(trained, cell)
    (cell / "config.yaml").rename(tmp_path / "config.yaml")
    (cell / "buffer").rename(tmp_path / "buffer")
    page = open_page(ServeFlags(str(cell)))
    assert "Before training" in page("which river was deep?")
    assert not (cell / "index-before").exists()  # the comparison's buffer is the start's
    assert main(["search", "which river was deep?", "--run", str(cell)]) == 0
    capsys.readouterr()
    assert main(["serve", str(tmp_path), "--port", "0"]) == 2
    assert f"name one of its cells, e.g. {cell}" in capsys.readouterr().err
    assert main(["answer", "which river was deep?", "--run", str(cell)]) == 2
    assert "not a finished run of `unstale rag`: it has no reader" in capsys.readouterr().err
    shutil.rmtree(cell / "model")
    assert main(["serve", str(cell), "--port", "0"]) == 2
    assert "no model/" in capsys.readouterr().err
