"""What was compressed page by page is what any gzip makes the page of again."""

from __future__ import annotations

import gzip

from hypothesis import given
from hypothesis import strategies as st

from virtscope.toolkit.compression import Gzip

# Few pieces, large and small ones, that come again as the same object or as a copy.
PIECES = [b"", b"# EOF\n", b"held 1.0\n" * 10_000, b"limit 1.0\n" * 10_000, bytes(range(256)) * 100]


@given(st.lists(st.lists(st.sampled_from(PIECES) | st.binary(max_size=9)), max_size=4))
def test_any_gzip_reads_every_page(pages: list[list[bytes]]) -> None:
    compressor = Gzip()
    for page in pages:
        assert gzip.decompress(compressor.compress(page)) == b"".join(page)


def test_a_piece_that_is_gone_is_not_taken_for_another() -> None:
    compressor = Gzip()
    for number in range(100):  # each likely to get the id of the one before
        piece = b"%d\n" % number * 20_000
        assert gzip.decompress(compressor.compress([piece])) == piece
