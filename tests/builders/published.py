"""The mark of the tests that exercise a row of the published interface,
`tests/conformance/api_rows.json`."""

import pytest

row = pytest.mark.row
