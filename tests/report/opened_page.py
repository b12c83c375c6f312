"""A page in the browser, opened until its scripts have run."""

from typing import Any


def open_page(driver: Any, address: str) -> None:
    """Show the page at an address; a driver may say that it is there while its scripts still run."""
    from selenium.webdriver.support.ui import WebDriverWait

    driver.get(address)
    shown = "return document.readyState === 'complete' && document.URL"
    WebDriverWait(driver, 60, poll_frequency=0.05).until(lambda one: one.execute_script(shown) == address)
