"""The `forecast` command: plan, backtest, forecast, show and write; `demo` runs it on generated data."""
