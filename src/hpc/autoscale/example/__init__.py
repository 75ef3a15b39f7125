"""Small programs to read and to copy from: `basic` is the shortest integration there is,
`readmeutil` what documents run their examples with. Nothing in the library imports them;
integrations' tests do."""
