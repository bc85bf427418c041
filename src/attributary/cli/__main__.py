from attributary.cli import main

main(prog_name="attributary")
