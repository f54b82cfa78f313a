
  def install
    bin.install "belljar"
    generate_completions_from_executable(bin/"belljar", "completions")
    system bin/"belljar", "man-pages", man1.tap(&:mkpath)
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/belljar --version")
  end
end
